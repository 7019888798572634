"""OpenAI Responses: decode, encode, and the API as one object."""
