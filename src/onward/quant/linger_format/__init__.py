"""`quant_format="linger"`: the file that the tools of linger's chips read."""
