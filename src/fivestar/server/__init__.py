"""Link prediction over HTTP, and the page that shows it."""
