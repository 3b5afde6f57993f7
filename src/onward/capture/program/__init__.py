"""What capture produces: facts about values, control flow, constants made of weights; and how to run it."""
