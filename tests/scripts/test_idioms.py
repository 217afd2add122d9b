"""Lines that many training scripts contain: they run, and what can be compared is PyTorch's."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

Idiom = Callable[[Any, Any], Any]
IDIOMS: dict[str, Idiom] = {}


def idiom(fn: Idiom) -> Idiom:
    IDIOMS[fn.__name__] = fn
    return fn


def ramp(torch: Any, *shape: int) -> Any:
    return torch.linspace(-1, 1, int(np.prod(shape))).view(*shape)


def ones_model(torch: Any) -> Any:
    """A linear layer with known weights."""
    model = torch.nn.Linear(2, 2)
    model.weight.data.copy_(ramp(torch, 2, 2))
    model.bias.data.zero_()
    return model


@idiom
def count_correct(torch: Any, folder: Any) -> Any:
    output, target = ramp(torch, 4, 3), torch.tensor([2, 1, 2, 0])
    _, predicted = torch.max(output.data, 1)
    total = target.size(0)
    correct = (predicted == target).sum().item()
    pred = output.argmax(dim=1, keepdim=True)
    return predicted.cpu().numpy(), 100 * correct / total, pred.eq(target.view_as(pred)).sum().item()


@idiom
def checkpoint_of_everything(torch: Any, folder: Any) -> Any:
    model = ones_model(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    path = str(folder / "checkpoint.pt")
    torch.save(
        {"epoch": 3, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(), "loss": 0.5}, path
    )  # fmt: skip
    found = torch.load(path, map_location=torch.device("cpu"), weights_only=True)
    other = torch.nn.Linear(2, 2)
    other.load_state_dict(found["model_state_dict"])
    optimizer.load_state_dict(found["optimizer_state_dict"])
    return found["epoch"], found["loss"], other.weight.detach().numpy()


@idiom
def learning_rates(torch: Any, folder: Any) -> Any:
    model = ones_model(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.1, patience=0)
    optimizer.step()
    plateau.step(torch.tensor(1.0))
    plateau.step(2.0)
    seen = [optimizer.param_groups[0]["lr"]]
    steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2], gamma=0.5)
    for _ in range(2):
        optimizer.step()
        steps.step()
        seen += steps.get_last_lr()
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    return seen


@idiom
def initialisers(torch: Any, folder: Any) -> Any:
    nn = torch.nn

    def init(m: Any) -> None:
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            nn.init.xavier_uniform_(m.weight, gain=nn.init.calculate_gain("relu"))
            m.weight.data.normal_(0, 0.02)
            m.weight.data.uniform_(-0.1, 0.1)
            nn.init.constant_(m.bias, 0)
            m.bias.data.fill_(0.5)
        elif type(m) is nn.LSTM:
            for name, p in m.named_parameters():
                if "weight_hh" in name:
                    nn.init.orthogonal_(p.data)

    model = nn.Sequential(nn.Linear(2, 2), nn.Conv2d(1, 2, 3), nn.LSTM(2, 3))
    model.apply(init)
    return model[0].bias.detach().numpy(), [tuple(p.shape) for p in model.parameters()]


@idiom
def modes(torch: Any, folder: Any) -> Any:
    @torch.no_grad()
    def evaluate(x: Any) -> Any:
        return (x * 2).requires_grad

    @torch.inference_mode()
    def infer(x: Any) -> Any:
        return (x * 2).requires_grad

    x = torch.ones(2, requires_grad=True)
    with torch.set_grad_enabled(False):
        off = (x * 2).requires_grad
    with torch.autograd.set_detect_anomaly(True):
        (x * 2).sum().backward()
    return evaluate(x), infer(x), off, x.grad.tolist()


@idiom
def data_loading(torch: Any, folder: Any) -> Any:
    data = importlib.import_module(f"{torch.__name__}.utils.data")

    class Squares(data.Dataset):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, i: int) -> Any:
            return torch.ones(2) * i, i * i

    first, second = data.random_split(Squares(), [8, 2], generator=torch.Generator().manual_seed(42))
    loader = data.DataLoader(
        first, batch_size=4, shuffle=True, num_workers=0, pin_memory=False, drop_last=True
    )
    x, y = next(iter(loader))
    assert ((x[:, 0] ** 2).long() == y).all()
    plain = data.DataLoader(Squares(), batch_size=4, sampler=data.SequentialSampler(Squares()))
    return (
        len(loader),
        len(loader.dataset),
        len(second),
        x.shape,
        str(y.dtype)[-5:],
        [b[1].tolist() for b in plain],
    )


@idiom
def shapes(torch: Any, folder: Any) -> Any:
    x = ramp(torch, 2, 3, 4)
    made = [
        x.view(x.size(0), -1),
        x.permute(0, 2, 1).contiguous().view(2, -1),
        torch.cat((x, x), dim=1),
        torch.stack([x, x]),
        x.unsqueeze(0).squeeze(),
        x.repeat(1, 1, 2),
        torch.chunk(x, 2, dim=2)[1],
        x[:, None, ..., -1],
        torch.einsum("bij,bkj->bik", x, x),
        x.masked_fill(x > 0, -1e9),
        torch.triu(torch.ones(3, 3), diagonal=1).bool().float(),
        x.gather(1, torch.zeros(2, 1, 4).long()),
        torch.where(x > 0, x, torch.zeros_like(x)),
        x.topk(2)[0],
        x.sort(descending=True).values,
        x.new_zeros(2),
        x.new_full((2,), 3.0),
        torch.nn.functional.one_hot(torch.tensor([0, 2]), num_classes=3).float(),
        torch.nn.functional.normalize(x, dim=-1),
        torch.nn.functional.pad(x[None], (1, 1, 1, 1), mode="reflect"),
        torch.nn.functional.interpolate(x[None], scale_factor=2, mode="bilinear", align_corners=False),
        torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        torch.mean(x, dim=(1, 2), keepdim=True),
        torch.clamp(x, min=0),
        torch.logsumexp(x, 0),
        torch.norm(x),
    ]
    return [np.asarray(m.numpy(), dtype=np.float64) for m in made]


@idiom
def devices_and_types(torch: Any, folder: Any) -> Any:
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = ones_model(torch).to(device)
    x = torch.from_numpy(np.ones((1, 2))).float().to(device, non_blocking=True)
    y = torch.zeros(2, device=device, dtype=torch.long).type(torch.FloatTensor)
    with contextlib.suppress(
        RuntimeError
    ):  # torch.testing, once imported, forbids it for the rest of the process
        torch.backends.cudnn.benchmark = False
    torch.cuda.manual_seed_all(0)
    return (
        model(x).detach().cpu().numpy(), y.tolist(), next(model.parameters()).is_cuda, str(x.device), x.dtype.itemsize,
        isinstance(x, torch.Tensor), torch.is_tensor(x), float(x[0, 0]), int(x[0, 1]), x.numpy(),
    )  # fmt: skip


@idiom
def accumulated_and_clipped(torch: Any, folder: Any) -> Any:
    model = ones_model(torch)
    optimizer = torch.optim.AdamW(
        [{"params": [model.weight]}, {"params": [model.bias], "lr": 1e-3}], lr=1e-2, weight_decay=0.01
    )
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    optimizer.zero_grad(set_to_none=True)
    for i in range(4):
        with torch.autocast("cuda", enabled=False):
            loss = model(torch.ones(3, 2) * i).pow(2).mean() / 2
        scaler.scale(loss).backward()
        if (i + 1) % 2 == 0:
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return loss.item(), norm.item(), model.weight.detach().numpy(), sum(p.numel() for p in model.parameters())


@idiom
def losses(torch: Any, folder: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional
    x, target = ramp(torch, 3, 4), torch.tensor([0, 1, -100])
    found = [
        nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-100)(x, target),
        nn.BCEWithLogitsLoss(pos_weight=torch.ones(4) * 2)(x, (x > 0).float()),
        F.kl_div(F.log_softmax(x, dim=-1), F.softmax(-x, dim=-1), reduction="batchmean"),
        F.mse_loss(x, x * 2),
        F.smooth_l1_loss(x, x * 3, reduction="sum"),
        F.nll_loss(F.log_softmax(x, 1), torch.tensor([0, 1, 2])),
        F.cosine_similarity(x, -x).sum(),
        nn.TripletMarginLoss()(x, x * 2, -x),
    ]
    return [loss.item() for loss in found]


@idiom
def looking_inside(torch: Any, folder: Any) -> Any:
    model = ones_model(torch)
    seen: dict[str, Any] = {}
    handle = model.register_forward_hook(lambda m, i, o: seen.update(output=o.detach()))
    y = model(torch.ones(1, 2))
    handle.remove()
    y.register_hook(lambda g: seen.update(grad=g.clone()))
    y.sum().backward()
    model.weight.requires_grad = False
    trained = [n for n, p in model.named_parameters() if p.requires_grad]
    return seen["output"].numpy(), seen["grad"].numpy(), trained, repr(model), y.grad_fn.name()


@idiom
def sequences(torch: Any, folder: Any) -> Any:
    utils = torch.nn.utils.rnn
    padded = utils.pad_sequence([torch.ones(3, 2), torch.ones(5, 2)], batch_first=True)
    packed = utils.pack_padded_sequence(padded, torch.tensor([3, 5]), batch_first=True, enforce_sorted=False)
    model = torch.nn.GRU(2, 3, num_layers=2, bidirectional=True, batch_first=True)
    for p in model.parameters():
        p.data.fill_(0.1)
    out, lengths = utils.pad_packed_sequence(model(packed)[0], batch_first=True)
    embed = torch.nn.Embedding.from_pretrained(ramp(torch, 5, 2), freeze=True)
    return out.detach().numpy(), lengths.tolist(), embed(torch.LongTensor([0, 4])).numpy()


@idiom
def averaged_weights(torch: Any, folder: Any) -> Any:
    model = ones_model(torch)
    swa = torch.optim.swa_utils
    averaged = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    for _ in range(3):
        model.weight.data.add_(1)
        averaged.update_parameters(model)
    return averaged.module.weight.detach().numpy()


def same(a: Any, b: Any, where: str) -> None:
    if isinstance(b, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{i}]")
    elif isinstance(b, (float, np.ndarray)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=where)
    else:
        assert a == b, where


@pytest.mark.parametrize("name", IDIOMS)
def test_idiom(name: str, tmp_path: Any) -> None:
    mine = IDIOMS[name](tg, tmp_path)
    if (
        importlib.util.find_spec("torch") is not None
    ):  # PyTorch is the oracle; without it, that all runs is the test
        same(mine, IDIOMS[name](importlib.import_module("torch"), tmp_path), name)
