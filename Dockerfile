# The HTTP service and its page, on CPUs. Where runs are: a folder mounted at /model.
#
#     docker build -t fivestar .
#     docker run -p 127.0.0.1:8005:8005 -v ./demo_run:/model:ro fivestar
#
# The default torch wheel brings CUDA libraries. For a small image, name the index with the CPU
# builds of torch that PyTorch's install page shows: --build-arg PIP_EXTRA_INDEX_URL=...
FROM python:3.13-slim AS build
ARG PIP_EXTRA_INDEX_URL
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE THIRD_PARTY.md ./
COPY src src
RUN python -m venv /opt/fivestar \
    && /opt/fivestar/bin/pip install --no-cache-dir -c constraints.txt ".[all]"

FROM python:3.13-slim
COPY --from=build /opt/fivestar /opt/fivestar
RUN useradd --create-home --uid 1000 fivestar
USER 1000
WORKDIR /home/fivestar
ENV PATH=/opt/fivestar/bin:$PATH
EXPOSE 8005
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8005/health', timeout=4)"]
ENTRYPOINT ["fivestar"]
CMD ["serve", "/model", "--host", "0.0.0.0"]
