#!/usr/bin/env bash
# Rendered by scripts/render_cloud from configs/cloud.yaml; edit that. How to use it: docs/cloud.md
#   deploy/runpod.sh             runpodctl must know your API key (runpodctl config)
set -euo pipefail

IMAGE=${IMAGE:-YOUR-NAME/yolo-diag:cu13}
runpodctl create pod \
    --name yolo-train \
    --imageName "$IMAGE" \
    --gpuType 'NVIDIA GeForce RTX 4090' \
    --gpuCount 1 \
    --vcpu 8 \
    --mem 32 \
    --containerDiskSize 20 \
    --volumeSize 100 \
    --volumePath /workspace \
    --args 'train data=/workspace/data/data.yaml model=yolo11n.yaml epochs=100 imgsz=640 name=yolo-train'
