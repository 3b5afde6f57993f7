"""Decisions that are explored: the model runs again with the other answer, and what differs becomes an If or a Loop.

items         what a run is written down as, and what a program is made of
recorder      one run of a model, written down, with answers that may be forced
ranges        loops that say when a turn begins
variables     Python's own numbers that change from turn to turn
lengths       lists that the turns of a loop have filled
readings      numbers that a run reads from its data
shapes        how large the results of a run are, for another run to follow
python_loops  what the code of a function says about its loops

runs          the runs of a model, and what they have in common
endless       whether a question keeps a loop going
branches      two runs that part at a decision and meet again
turns         the turns of a loop, laid one upon the other
loops         what a loop leaves
exits         turns in which a loop is left
questions     whether the answer to a question changes from turn to turn
repeats       loops over lists that an earlier loop has filled
explorer      from the first run to the program

accept        whether a program could have done what a run did: the check that decides
replay        a program, run on traced tensors: what the file will hold
attempt       a model, captured so
"""

from __future__ import annotations
