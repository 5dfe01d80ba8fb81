"""`aidiag run`: starts a command under watch without ever standing in its way.

Three processes:

- `run` (launch) starts the command, forwards signals, and ends with its exit status. It touches no file of the job.
- the keeper (keeper) moves the command's output to the user's terminal or files, and does everything that may fail
  or hang: job folder, capture, findings on stderr. It has no other task, so when `run` is killed the output flows on;
  when the keeper is killed, `run`, which holds the same descriptors, starts another one.
- the sidecar (sidecar), one a host and job, in its own session, watches the job.
"""
