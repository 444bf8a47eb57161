"""Recording from the real frameworks, in an environment of their own (``make frameworks``): their pins are not ours."""
