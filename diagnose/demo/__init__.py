"""`aidiag demo`: a real small training job with a chosen fault, under `aidiag run`."""
