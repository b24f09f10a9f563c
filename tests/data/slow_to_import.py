"""A module that takes its time to be imported, as those do that load models or indices; workers are started anew."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

IMPORT_S = 1.0
time.sleep(IMPORT_S)


class Waiting(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.zeros(4)


def spawned():
    return DataLoader(Waiting(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
