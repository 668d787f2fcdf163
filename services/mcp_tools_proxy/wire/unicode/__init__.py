"""What a person does not see of a text: characters without a shape, and ones of another's."""
