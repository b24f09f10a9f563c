"""NumPy's semantics and numerics, and what passes between NumPy and torch. Section 1.6 of the probe list."""

from probe import Probe


def semantics():
    """Promotion, names that came and went, copies, truth and errors."""
    import numpy as np

    cells = {
        "f32_plus_float": lambda: np.float32(3) + 3.0,
        "uint8_plus": lambda: np.uint8(200) + 100,
        "uint8_array_plus_300": lambda: np.array([1], dtype="uint8") + 300,
        "uint8_array_plus_int": lambda: np.array([1], dtype="uint8") + 200,
        "uint8_300": lambda: np.uint8(300),
        "uint8_negative": lambda: np.uint8(-1),
        "int8_array_from_200": lambda: np.array([200], dtype="int8"),
        "f32_array_times_f64": lambda: np.ones(2, dtype="float32") * np.float64(2),
        "i64_scalar_plus_i8_array": lambda: np.ones(2, dtype="int8") + np.int64(1),
        "repr": lambda: repr(np.float32(1.5)),
        "repr_str": lambda: repr(np.str_("a")),
        "repr_array": lambda: repr(np.array([1.0, 2.5])),
        "copy_false": lambda: np.array([1, 2], copy=False),
        "percentile_f4": lambda: np.percentile(np.arange(5, dtype="float32"), 30),
        "quantile_method": lambda: np.quantile([1, 2, 3, 4], 0.4, method="lower"),
        "unique_inverse": lambda: np.unique(np.array([[1], [2]]), return_inverse=True)[1],
        "ragged": lambda: np.array([[1, 2], [3]]).shape,
        "truth_empty": lambda: bool(np.array([])),
        "float_of_array": lambda: float(np.array([1.5])),
        "fromstring": lambda: np.fromstring(b"\x01\x02", dtype="uint8"),
        "asarray_none": lambda: np.asarray([None, 1]).dtype.name,
        "concatenate_casting": lambda: np.concatenate([np.ones(1, "int64"), np.ones(1, "float32")]),
        "nan_to_int": lambda: np.array([1e10]).astype("int32").shape,
        "where_dtype": lambda: np.where([True, False], np.float32(1), 2.0),
        "clip_uint8": lambda: np.clip(np.array([1, 2], dtype="uint8"), -1, 300),
        "linspace_int": lambda: np.linspace(0, -3, 4, dtype=int),
        "mean_f32": lambda: np.ones(3, dtype="float32").mean(),
        "sum_uint8": lambda: np.full(3, 200, dtype="uint8").sum(),
        "eq_shapes": lambda: bool(np.all(np.array([1, 2]) == np.array([1, 2, 3]))),
        "int_default": lambda: np.array([1]).dtype.name,
        "round_half": lambda: np.round(np.array([0.5, 1.5, 2.5])),
    }
    return list(cells.items()) + _names(np)


def _names(np):
    """Names of NumPy that came and went."""
    names = (
        "bool int float object str float_ Inf NaN product alltrue cumproduct in1d trapz trapezoid row_stack asfarray"
    )
    return [("name_" + name, lambda name=name: getattr(np, name) and True) for name in names.split()]


def numbers():
    """NumPy's functions over full mantissas, and orders that depend on its kernels."""
    import numpy as np

    x = (np.arange(64) / 1013 - 0.4987).astype("float32")
    square = x.reshape(8, 8)
    ties = np.array([3, 1, 2, 1, 3, 2, 1, 3] * 8)
    cells = {name: lambda name=name: getattr(np, name)(x) for name in "exp sin cos tanh sqrt square".split()}
    cells.update(
        {
            "log": lambda: np.log(np.abs(x) + 1),
            "pow": lambda: (np.abs(x) + 1) ** 2.3,
            "argsort_ties": lambda: np.argsort(ties),
            "argsort_stable": lambda: np.argsort(ties, kind="stable"),
            "argpartition": lambda: np.sort(ties[np.argpartition(ties, 8)[:8]]),
            "sum": lambda: x.sum(),
            "mean": lambda: x.mean(),
            "std": lambda: x.std(),
            "dot": lambda: x.dot(x),
            "matmul": lambda: square @ square,
            "svd": lambda: np.linalg.svd(square.astype("float64") + np.eye(8))[1],
            "inv": lambda: np.linalg.inv(square + 3 * np.eye(8)),
            "fft": lambda: np.abs(np.fft.fft(x)),
            "percentile_dtype": lambda: np.percentile(x, 30).dtype.name,
            "unique_inverse_shape": lambda: list(np.unique(ties.reshape(8, 8), return_inverse=True)[1].shape),
            "integer_sum": lambda: np.arange(1000).sum(),
            "median": lambda: np.median(x),
            "cumsum": lambda: np.cumsum(x),
        }
    )
    return list(cells.items())


def interop():
    """From NumPy to torch and back."""
    import numpy as np
    import torch

    kinds = "bool uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64".split()
    cells = [("from_" + kind, lambda kind=kind: torch.from_numpy(np.ones(2, dtype=kind))) for kind in kinds]
    more = {
        "to_numpy": lambda: torch.ones(2).numpy(),
        "to_numpy_grad": lambda: torch.ones(2, requires_grad=True).numpy(),
        "to_numpy_bf16": lambda: torch.ones(2, dtype=torch.bfloat16).numpy(),
        "np_array": lambda: np.array(torch.ones(2)),
        "np_asarray_dtype": lambda: np.asarray(torch.ones(2), dtype="float64"),
        "asarray": lambda: torch.asarray(np.ones(2)),
        "as_tensor_readonly": lambda: torch.as_tensor(np.frombuffer(b"\x01\x02", dtype="uint8")),
        "tensor_of_f64": lambda: torch.tensor(np.float64(1.1)),
        "tensor_of_f32": lambda: torch.tensor(np.float32(1.5)),
        "tensor_of_i64": lambda: torch.tensor(np.int64(3)),
        "tensor_of_bool": lambda: torch.tensor(np.bool_(True)),
        "list_of_f64": lambda: torch.tensor([np.float64(1.1), np.float64(2.2)]),
        "list_of_arrays": lambda: torch.tensor([np.ones(2), np.zeros(2)]),
        "array_times_tensor": lambda: np.ones(2) * torch.ones(2),
        "tensor_times_array": lambda: torch.ones(2) * np.ones(2),
        "scalar_times_tensor": lambda: np.float64(2) * torch.ones(2),
        "ufunc": lambda: np.sqrt(torch.ones(2)),
        "index": lambda: np.arange(4)[torch.tensor([1, 2])],
        "index_tensor": lambda: torch.arange(4)[np.array([1, 2])],
        "stride": lambda: torch.from_numpy(np.arange(4)[::-1]),
        "shares_memory": lambda: _shares(np, torch),
    }
    return cells + list(more.items())


def _shares(np, torch):
    array = np.zeros(2)
    tensor = torch.from_numpy(array)
    array[0] = 5
    return float(tensor[0])


def torch_defaults():
    """torch's own settings, and small semantics that changed."""
    import torch

    cells = {
        "dtype": lambda: str(torch.get_default_dtype()),
        "matmul_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
        "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled,
        "matmul_precision": lambda: torch.get_float32_matmul_precision(),
        "int_mean": lambda: torch.arange(3).mean(),
        "bool_sub": lambda: torch.tensor([True]) - torch.tensor([False]),
        "int_true_divide": lambda: torch.tensor(7) / 2,
        "int_floor_divide": lambda: torch.tensor(-7) // 2,
        "full_int": lambda: str(torch.full((2,), 3).dtype),
        "tensor_float": lambda: str(torch.tensor(1.5).dtype),
        "tensor_int": lambda: str(torch.tensor(1).dtype),
        "tensor_complex": lambda: str(torch.tensor(1j).dtype),
        "nonzero": lambda: torch.tensor([0, 1]).nonzero(),
        "meshgrid": lambda: torch.meshgrid(torch.arange(2), torch.arange(2))[0],
        "indexing_uint8": lambda: torch.arange(2)[torch.tensor([1, 0], dtype=torch.uint8)],
        "inference_numpy": lambda: str(torch.ones(1).to(torch.float16).dtype),
        "crossentropy_int32": lambda: torch.nn.functional.cross_entropy(
            torch.ones(1, 2), torch.zeros(1, dtype=torch.int32)
        ),
        "one_hot": lambda: torch.nn.functional.one_hot(torch.tensor([0, 2])),
    }
    return list(cells.items())


PROBES = [
    Probe("num.numpy", numbers),
    Probe("numpy.semantics", semantics),
    Probe("interop.numpy_torch", interop),
    Probe("torch.defaults", torch_defaults),
]
