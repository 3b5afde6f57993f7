"""What quantization is asked to do: the configuration, its checks, and the files that it is kept in."""
