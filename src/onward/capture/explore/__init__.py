"""Decisions that are explored: the model runs again with the other answer, and what differs becomes an If or a Loop.

items      what a run is written down as, and what a program is made of
recorder   one run of a model, written down, with answers that may be forced
ranges     loops that say when a turn begins
branches   two runs that part at a decision and meet again
loops      the turns of a loop, laid one upon the other
accept     whether a program could have done what a run did: the check that decides
replay     a program, run on traced tensors: what the file will hold
explorer   from the first run to the program
"""

from __future__ import annotations
