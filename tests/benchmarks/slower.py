"""Datasets, and the same made 15 % slower."""

import time

import torch
from torch.utils.data import Dataset


class Waiting(Dataset):
    def __init__(self, factor):
        self.seconds = 0.005 * factor

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.zeros(3, 32, 32)


class Computing(Waiting):
    def __init__(self, factor):
        self.steps = int(30000 * factor)

    def __getitem__(self, index):
        value = index
        for _ in range(self.steps):
            value = (value * 1103515245 + 12345) % 2147483648
        return torch.zeros(3, 32, 32)


def waiting():
    return Waiting(1.0)


def waiting_slower():
    return Waiting(1.15)


def computing():
    return Computing(1.0)


def computing_slower():
    return Computing(1.15)
