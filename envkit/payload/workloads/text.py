"""Sequences of unequal length with a collate function that pads them, and a stream that workers divide."""

import random


class Text:
    """Token numbers, 10 to 500 of them."""

    length = 8192

    def __init__(self, folder):
        pass

    def dataset(self, length):
        """A dataset of `length` samples."""
        return Sentences(length)

    @staticmethod
    def collate(batch):
        """Pad to the longest."""
        import torch

        longest = max(len(tokens) for tokens in batch)
        return torch.stack([torch.nn.functional.pad(tokens, (0, longest - len(tokens))) for tokens in batch])


class Sentences:
    """The map-style dataset."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch

        source = random.Random(index)
        return torch.tensor([source.randrange(30000) for _ in range(source.randrange(10, 500))])


class Sharded(Text):
    """The same as a stream."""

    def dataset(self, length):
        """A stream of `length` samples."""
        from torch.utils.data import IterableDataset, get_worker_info

        class Stream(IterableDataset):
            def __iter__(self):
                worker = get_worker_info()
                first, step = (worker.id, worker.num_workers) if worker else (0, 1)
                sentences = Sentences(length)
                return (sentences[index] for index in range(first, length, step))

        return Stream()
