/** Starts Swagger UI for this server only. */
declare const SwaggerUIBundle: (settings: object) => void;

SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui", validatorUrl: null, deepLinking: true });
