"use strict";(()=>{SwaggerUIBundle({url:"/openapi.json",dom_id:"#swagger-ui",validatorUrl:null,deepLinking:!0});})();
