"""The compiled kernels, in C++ over plain tables. `_kernels` imports them; nothing else should."""
