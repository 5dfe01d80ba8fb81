"""What training programs print by the million when nothing is wrong.

A text that stands in such lines announces nothing: a wording that has no other one is looked for as a whole. The lines
are examples of their kinds, in the styles of the programs that print them.
"""

from __future__ import annotations

ORDINARY = rb"""
[rank0]: step 120 loss 2.3817 lr 3.0e-04 throughput 150.8 tokens/s memory 45.3 GiB
2026-11-30 20:17:36,002 INFO trainer.py:212 epoch 0 batch 2 time 0.583s data 0.058s
Epoch 3: 41% |#########      | 4100/10000 [00:12<00:34, 12.3it/s, loss=0.583, v_num=0]
Epoch: [0][  10/5005]	Time  0.371 ( 1.020)	Data  0.000 ( 0.611)	Loss 6.98e+00 (7.02e+00)	Acc@1   0.00 (  0.16)
epoch 1 step 200: loss = 0.41, accuracy = 0.87, 0.31 s/step, samples/sec: 412.0, eta: 1:02:11
Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.95)  Time: 0.412s, 621.36/s  LR: 1.000e-06  Data: 0.012 (0.043)
{'loss': 1.2345, 'grad_norm': 0.51, 'learning_rate': 1.9e-05, 'epoch': 0.04}
{'eval_loss': 1.1, 'eval_runtime': 12.2, 'eval_samples_per_second': 81.9, 'train_loss': 0.9, 'epoch': 1.0}
  1%|          | 100/10000 [01:02<1:42:10,  1.61it/s]
100/1875 [=>............................] - ETA: 3s - loss: 0.5012 - accuracy: 0.8611
11/30 20:17:36 - mmengine - INFO - Epoch(train)  [1][ 50/391]  lr: 1.0e-01  eta: 2:03:11  time: 0.19  data_time: 0.01  memory: 1217  loss: 2.1
 iteration      100/  500000 | consumed samples:       25600 | elapsed time per iteration (ms): 612.4 | learning rate: 1.5E-06 | global batch size:   256 | lm loss: 9.01E+00 | loss scale: 1.0 | grad norm: 1.2 | number of skipped iterations:   0 |
[2026-11-30 20:17:36,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[3e-05], mom=[[0.9, 0.999]]
[2026-11-30 20:17:36,000] [INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=41.2, CurrSamplesPerSec=42.0, MemAllocated=12.1GB, MaxMemAllocated=20.5GB
2026-11-30 20:17:36 | INFO | train_inner | epoch 001:    100 / 5004 loss=14.1, ppl=1.7e4, wps=31241, ups=3.1, wpb=9981, bsz=351, num_updates=100, lr=1.2e-05, gnorm=2.9, clip=0, train_wall=32, gb_free=11.2, wall=40
[titan] 2026-11-30 20:17:36,000 - root - INFO - step: 10  loss:  4.1  memory: 20.03GiB(25.3%)  tps: 7,012  tflops: 410.2  mfu: 41.4%
INFO 11-30 20:17:36 [loggers.py:116] Engine 000: Avg prompt throughput: 10.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 0.0%
node-a:1001:2001 [1] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f00 recvbuff 0x7f00 count 16 datatype 7 op 0 root 0 comm 0x55d1c0 [nranks=8] stream 0x55
(RayTrainWorker pid=4711, ip=10.0.0.1) trained 512 samples, 4 batches, 2 files, worker 3 on device cuda:0 of node 1
rank 0: forward 0.021 s, backward 0.043 s, optimizer 0.004 s, total time 0.071 s, gpu mem 41.2 GB, cpu mem 12.0 GB
validation accuracy: 0.71, best so far 0.73, saving checkpoint to /ckpt/step_2000.pt, checkpoint saved, loading data from /data/train
"""
