"""Models on a hub: searched, shown, fetched into the Hugging Face cache, verified. Nothing here
asks the network before one of these functions is called."""
