"""The hooks: the only part of aidiag that touches torch, and only a torch that the trainer has already loaded."""
