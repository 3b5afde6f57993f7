"""What every room needs: source lines, schemas, trees, axes, the thread's trace, and which kernels check sizes."""
