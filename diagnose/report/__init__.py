"""Reports: what a diagnosis says, as data, as JSON and on a terminal."""
