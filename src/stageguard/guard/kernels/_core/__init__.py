"""The compiled kernels, in C++ over plain tables, which `guard.kernels` chooses."""
