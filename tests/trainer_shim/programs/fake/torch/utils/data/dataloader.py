"""The loader."""

# mypy: ignore-errors


class _BaseDataLoaderIter:
    def __init__(self, dataset):
        self._items = iter(dataset)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)


class DataLoader:
    """A loader over a list."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return _BaseDataLoaderIter(self.dataset)
