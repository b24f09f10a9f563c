"""Image files, as a classifier reads them: decode, resize to 224x224, normalise."""

import os
import random

FILES = 48
SIZE = (500, 375)
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Jpeg:
    """JPEG files, written once into the folder."""

    length = 4096

    def __init__(self, folder):
        from PIL import Image

        self.paths = [os.path.join(folder, "%03d.jpg" % index) for index in range(FILES)]
        for index, path in enumerate(self.paths):
            if os.path.exists(path):
                continue
            # Smooth noise: about the detail, and the bytes, of a photograph.
            source = random.Random(index)
            small = Image.frombytes("RGB", (50, 38), bytes(source.getrandbits(8) for _ in range(50 * 38 * 3)))
            small.resize(SIZE, Image.BICUBIC).save(path, quality=90)

    def dataset(self, length):
        """A dataset of `length` samples, over the files again and again."""
        return Files(self.paths, length)


class Images:
    """The image files in a folder of the user's, and below it."""

    length = None

    def __init__(self, folder):
        from PIL import Image

        known = Image.registered_extensions()
        found = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
        self.paths = sorted(path for path in found if os.path.splitext(path)[1].lower() in known)
        if not self.paths:
            raise ValueError("there are no image files in the folder")

    def dataset(self, length):
        """A dataset of all files, in the order of a shuffling sampler: a disk does not read them in one go."""
        paths = list(self.paths)
        random.Random(0).shuffle(paths)
        return Files(paths, len(paths))


class Files:
    """The map-style dataset."""

    def __init__(self, paths, length):
        self.paths = paths
        self.length = length

    def __len__(self):
        return self.length

    def forget(self, count):
        """Have the system drop its cached pages of the first files: what is read next comes from storage."""
        for path in self.paths[:count]:
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)

    def __getitem__(self, index):
        import torch
        from PIL import Image

        with Image.open(self.paths[index % len(self.paths)]) as image:
            pixels = image.convert("RGB").resize((224, 224), Image.BILINEAR)
        flat = _bytes(torch, pixels.tobytes())
        chw = flat.reshape(224, 224, 3).permute(2, 0, 1).to(torch.float32) / 255
        mean, std = torch.tensor(_MEAN)[:, None, None], torch.tensor(_STD)[:, None, None]
        return (chw - mean) / std, index


def _bytes(torch, data):
    """A tensor of bytes, without NumPy: it may be absent, or made for another ABI."""
    if hasattr(torch, "frombuffer"):  # torch 1.10
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return torch.ByteTensor(torch.ByteStorage.from_buffer(data))
