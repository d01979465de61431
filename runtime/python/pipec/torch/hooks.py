"""Hooks of a parameter's AccumulateGrad node. PyTorch runs them once a backward, and so does W, which else adds to `grad` by
itself."""


def _nothing(*_):
    return None


class NodeHooks:
    """Whether a node has hooks from Python, now. PyTorch shows its hooks to whoever registers one: so one is registered and
    removed, once."""

    __slots__ = ("_before", "_behind")

    def __init__(self, node):
        self._before, self._behind = map(self._all, (node.register_prehook, node.register_hook))

    @staticmethod
    def _all(register):
        handle = register(_nothing)
        found = handle.hooks_dict_ref()
        handle.remove()
        return found

    def __bool__(self):
        return bool(self._before or self._behind)
