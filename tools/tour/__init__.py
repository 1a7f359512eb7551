"""The tour: it uses the interface as a person does and saves pictures of it."""
