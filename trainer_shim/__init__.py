"""The trainer shim: what lives in the training process. Standard library only, Python 3.9 and newer."""
