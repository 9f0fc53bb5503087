#!/usr/bin/env bash
# Rendered by scripts/render_cloud from configs/cloud.yaml; edit that. How to use it: docs/cloud.md
#   deploy/vast.sh               vastai must know your API key (vastai set api-key)
#   deploy/vast.sh OFFER         on an offer that you chose
set -euo pipefail

IMAGE=${IMAGE:-YOUR-NAME/yolo-diag:cu13}
offer=${1:-}
if [ -z "$offer" ]; then
    offer=$(vastai search offers 'gpu_name=RTX_4090 num_gpus=1 cuda_vers>=13.0 disk_space>=100 reliability>0.98' --order dph_total --limit 1 --raw |
        python3 -c 'import json, sys; found = json.load(sys.stdin); print(found[0]["id"] if found else "")')
    [ -n "$offer" ] || { echo "no offer fits: gpu_name=RTX_4090 num_gpus=1 cuda_vers>=13.0 disk_space>=100 reliability>0.98" >&2; exit 1; }
fi
vastai create instance "$offer" \
    --image "$IMAGE" \
    --disk 100 \
    --label yolo-train \
    --env='--shm-size=8g' \
    --args train data=/workspace/data/data.yaml model=yolo11n.yaml epochs=100 imgsz=640 name=yolo-train
