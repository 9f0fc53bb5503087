export CUDA_VISIBLE_DEVICES=0,1,2,3
python train_aux.py --cfg cfg/training/optics/yolov7-d6.yaml --weights weights/yolov7-d6_training.pt --data data/optics_coco.yaml --hyp data/hyp.optics.p5.yaml --epochs 100 --batch-size 8 --img-size 1280 --multi-scale
