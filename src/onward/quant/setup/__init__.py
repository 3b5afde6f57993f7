"""What `onward.init` and `onward.constrain` change about a model."""
