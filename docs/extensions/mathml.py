"""Render formulas as MathML, which browsers show without an external script."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_converted(node))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula wide">{_converted(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _converted(node: nodes.Element, as_block: bool = False) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        return node.astext()
