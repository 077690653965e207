"""One file per command: parse, call a public function, print."""
