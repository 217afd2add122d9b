"""What the documentation's site is made of besides docs/: pages of the repository, the notebooks, and the API reference.

A hook of MkDocs (see mkdocs.yml). The reference is read from the library itself, from its signatures and docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tapegrad  # noqa: E402, F401 - the checkout that this file belongs to; MkDocs restores the path afterwards

WIDTH = 84  # of a signature on one line
TAKEN = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")

# Page -> (title, what it documents). A module stands for its public names.
REFERENCE = {
    "tapegrad": ("Functions", "tapegrad"),
    "tensor": ("Tensor", "tapegrad.Tensor"),
    "tape": ("The tape", "tapegrad.inspection"),
    "autograd": ("Differentiation", "tapegrad.autograd"),
    "nn": ("Networks", "tapegrad.nn"),
    "functional": ("Functions of networks", "tapegrad.nn.functional"),
    "init": ("Initialisers", "tapegrad.nn.init"),
    "optim": ("Optimizers", "tapegrad.optim"),
    "schedulers": ("Learning rate schedules", "tapegrad.optim.lr_scheduler"),
    "data": ("Data", "tapegrad.data"),
    "linalg": ("Linear algebra", "tapegrad.linalg"),
    "special": ("Special functions", "tapegrad.special"),
}


@event_priority(100)  # before the notebooks' plugin looks for notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    notebooks = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    for name in (*TAKEN, "notebooks/README.md", *(f"notebooks/{n}" for n in notebooks)):
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    for page, (title, target) in REFERENCE.items():
        files.append(File.generated(config, f"api/{page}.md", content=reference(title, target)))
    return files


def on_post_page(output: str, page: Any, config: MkDocsConfig) -> str:
    """Links that notebooks make for readers of the repository, as they are on the site."""
    if page.file.src_uri.startswith("notebooks/"):
        return output.replace("../docs/images/", "../../images/")
    return output


# -- the reference ------------------------------------------------------------------------------------


def reference(title: str, target: str) -> str:
    """A page of Markdown about a module or a class."""
    thing = _found(target)
    if inspect.isclass(thing):
        body = [_class(target.rpartition(".")[2], thing, heading="##")]
    else:
        body = [
            _entry(name, value) for name, value in sorted(_public(thing), key=lambda item: item[0].lower())
        ]
    head = _prose(inspect.getdoc(thing) or "") if not inspect.isclass(thing) else ""
    return "\n\n".join([f"# {title}", f"`{target}`", *filter(None, [head, *body])]) + "\n"


def _found(target: str) -> Any:
    """A module by its dotted name, or a class in one."""
    module, _, name = target.rpartition(".")
    if name[:1].isupper():
        return getattr(importlib.import_module(module), name)
    return importlib.import_module(target)


def _public(module: Any) -> Iterator[tuple[str, Any]]:
    """The names that a module offers: those of __all__, or its functions and classes from the library."""
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name, None)
        ours = str(getattr(value, "__module__", "")).startswith("tapegrad")
        if not name.startswith("_") and callable(value) and (ours or hasattr(value, "op")):
            yield name, value


def _entry(name: str, value: Any) -> str:
    return (
        _class(name, value, heading="##") if inspect.isclass(value) else _function(name, value, heading="##")
    )


def _function(name: str, value: Any, heading: str) -> str:
    return f"{heading} {name}\n\n{_signature(name, value)}\n\n{_prose(inspect.getdoc(value) or '')}"


def _class(name: str, value: Any, heading: str) -> str:
    """A class with those of its methods that are its own or its mixins', and have something to say."""
    parts = [f"{heading} {name}", _signature(name, value), _prose(_own_doc(value))]
    tensor = name == "Tensor"
    for method, found in sorted(_methods(value, inherited=tensor)):
        text = inspect.getdoc(found)
        if text:
            parts.append(_function(method, found, heading + "#") if tensor else _method(method, found, text))
    return "\n\n".join(filter(None, parts))


def _own_doc(value: Any) -> str:
    return inspect.cleandoc(value.__doc__) if value.__doc__ else ""


def _methods(value: Any, inherited: bool) -> Iterator[tuple[str, Any]]:
    names = dir(value) if inherited else list(vars(value))
    for name in names:
        found = inspect.getattr_static(value, name, None)
        if isinstance(found, (staticmethod, classmethod)):
            found = found.__func__
        if (
            not name.startswith("_")
            and name != "forward"
            and (inspect.isfunction(found) or hasattr(found, "op"))
        ):
            yield name, found


def _method(name: str, found: Any, text: str) -> str:
    first = _prose(text.partition("\n\n")[0]).replace("\n", " ")
    return f"* `{name}{_parameters(found)}`: {first}"


def _signature(name: str, value: Any) -> str:
    text = _parameters(value)
    if len(name + text) > WIDTH:
        text = "(\n    " + re.sub(r", (?=[*/]|\w+(?:=|,|\)))", ",\n    ", text[1:-1]) + ",\n)"
    return f"```python\n{name}{text}\n```"


def _parameters(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name not in ("self", "cls")
    ]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<([\w.]+)[^>]*>", r"\1", text)  # a default without a short form


def _prose(text: str) -> str:
    """A docstring as Markdown: literals, and blocks of code after a double colon."""
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)

    def block(match: re.Match[str]) -> str:
        body = inspect.cleandoc("\n" + match.group(1))
        return f"\n\n```python\n{body}\n```\n"

    text = re.sub(r"(?:(?<=\S):|^)?::\n\n((?:(?: {4}.*)?\n?)+)", block, text, flags=re.MULTILINE)
    # Angle brackets outside code would be taken for HTML.
    pieces = re.split(r"(```.*?```|`[^`]*`)", text, flags=re.DOTALL)
    return "".join(p if p.startswith("`") else p.replace("<", "&lt;") for p in pieces).strip()
