"""The models that people bring: one small configuration of every architecture of the packages installed here.

    python -m zoo [--package transformers] [-k TEXT] [--jobs 2] [--seconds 240] [--again]

Each architecture is built with seeded random weights, exported with dynamic axes in a process of its own, and compared
with PyTorch at other sizes. What was found is kept in `out/zoo/PACKAGE.jsonl`, so that a sweep can be taken up again.
"""
