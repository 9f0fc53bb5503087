#!/usr/bin/env bash
# Rendered by scripts/render_cloud from configs/cloud.yaml; edit that. How to use it: docs/cloud.md
#   deploy/apptainer.sh build    yolo-diag.sif from the image that Docker has here, else from where you pushed it
#   deploy/apptainer.sh run      train on this machine
set -euo pipefail

IMAGE=${IMAGE:-YOUR-NAME/yolo-diag:cu13}
sif=${SIF:-yolo-diag.sif}
workspace=${WORKSPACE_DIR:-$PWD/workspace}

case ${1:-} in
    build)
        if docker image inspect yolo-diag:cu13 >/dev/null 2>&1; then
            apptainer build "$sif" docker-daemon://yolo-diag:cu13
        else
            apptainer build "$sif" "docker://$IMAGE"
        fi
        ;;
    run)
        mkdir -p "$workspace"
        exec apptainer exec --nv --containall --no-home --writable-tmpfs \
            --bind "$workspace:/workspace" --pwd /workspace "$sif" \
            /app/entrypoint/entrypoint.sh train data=/workspace/data/data.yaml model=yolo11n.yaml epochs=100 imgsz=640 name=yolo-train
        ;;
    *)
        sed -n '3,4s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
esac
