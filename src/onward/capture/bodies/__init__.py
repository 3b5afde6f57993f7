"""Graphs inside of graphs: the bodies of branches and loops, and lists whose length depends on data."""
