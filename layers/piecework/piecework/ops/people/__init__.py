"""People at the operator's door: their tokens are those of an OpenID Connect issuer, whose keys are looked up."""
