"""The version of the package, which is the product's."""
VERSION = "0.1.0"
