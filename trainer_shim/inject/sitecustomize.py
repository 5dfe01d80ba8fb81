"""Arms the shim at the start of Python, and lets the next sitecustomize take over."""

# Imported by every Python process that has this folder on PYTHONPATH, also by ones that are no trainers and by
# interpreters older than the shim: so this file has plain syntax, does little, and lets the next sitecustomize on
# sys.path take over as if this one were not there. Errors in that one are Python's to report, as always.
# importlib.util would cost more time than all the rest: its functions are taken from where it has them.

import os
import sys

if sys.version_info >= (3, 9) and os.environ.get("AIDIAG_DISABLE") != "1" and "_aidiag_shim" not in sys.modules:
    try:
        from _frozen_importlib import module_from_spec
        from _frozen_importlib_external import spec_from_file_location

        _folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        _spec = spec_from_file_location(
            "_aidiag_shim", os.path.join(_folder, "__init__.py"), submodule_search_locations=[_folder]
        )
        if _spec is not None and _spec.loader is not None:
            _shim = module_from_spec(_spec)
            sys.modules["_aidiag_shim"] = _shim
            try:
                _spec.loader.exec_module(_shim)
                from _aidiag_shim.arming import inject  # type: ignore[import-not-found]

                inject()
            except Exception:
                del sys.modules["_aidiag_shim"]
    except Exception:
        pass  # no shim, no harm

if sys.version_info >= (3, 4):
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    _here = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))
    _places = [os.path.realpath(_place or ".") for _place in sys.path]
    _after = _places.index(_here) + 1 if _here in _places else 0
    _next = PathFinder.find_spec("sitecustomize", [p for p in sys.path[_after:] if os.path.realpath(p or ".") != _here])
    if _next is not None and _next.loader is not None:
        _module = module_from_spec(_next)
        sys.modules["sitecustomize"] = _module
        _next.loader.exec_module(_module)
