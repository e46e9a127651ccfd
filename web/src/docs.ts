/** Starts swagger-ui, which asks nobody but this server. */
declare const SwaggerUIBundle: (settings: object) => void;

SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui", validatorUrl: null, deepLinking: true });
