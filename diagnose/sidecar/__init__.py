"""The sidecar: collects, judges and serves while a job runs. Its death never touches the job."""
