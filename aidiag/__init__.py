"""Names what is wrong with a distributed training job, who is to blame, on what evidence, and what to do."""

__version__ = "0.1.0"
