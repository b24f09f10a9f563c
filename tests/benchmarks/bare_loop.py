"""`bare_loop.py PAYLOAD WORKLOAD WORKERS FOLDER`: samples per second of a plain loop over a loader, in steady state."""

import sys
import time

payload, workload, workers, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
sys.path.insert(0, payload)

import workloads  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

made = workloads.make(workload, folder)
loader = DataLoader(
    made.dataset(made.length),
    batch_size=8,
    num_workers=workers,
    collate_fn=getattr(made, "collate", None),
    persistent_workers=bool(workers),
)
skipped, begun, count = max(1, workers), 0.0, 0
started = time.perf_counter()
for number, _batch in enumerate(loader):
    # The first half second of a fresh interpreter is slower by some percent: memory that it has not yet touched.
    if not begun and number >= skipped and time.perf_counter() - started > 0.5:
        begun = time.perf_counter()
    elif begun:
        count += 1
        if count % max(1, workers) == 0 and time.perf_counter() - begun > 1.0:
            break
print(count * 8 / (time.perf_counter() - begun))
