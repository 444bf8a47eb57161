"""A federation of eight sites that learns scikit-learn's handwritten digits."""
