"""What a model and its code keep between runs: attributes, containers, globals, random generators."""
