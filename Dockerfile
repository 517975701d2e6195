# Runs `trinity serve` as uid 1000 on port 7860: on any host, and as a Docker Space.
FROM python:3.11-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
RUN python -m venv /opt/trinity
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY core core
COPY training training
COPY webapp webapp
COPY static static
RUN /opt/trinity/bin/pip install --no-cache-dir -c constraints.txt --index-url "$TORCH_INDEX" torch \
    && /opt/trinity/bin/pip install --no-cache-dir -c constraints.txt . \
    && TRINITY_CACHE_DIR=/opt/trinity/cache /opt/trinity/bin/trinity backbone install

FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 trinity \
    && mkdir -p /data && chown trinity /data
COPY --from=build /opt/trinity /opt/trinity
RUN chown -R trinity /opt/trinity/cache
USER trinity
# The server's working folder holds nothing of ours.
WORKDIR /home/trinity
ENV PATH=/opt/trinity/bin:$PATH TRINITY_CACHE_DIR=/opt/trinity/cache TRINITY_HOST=0.0.0.0 PYTHONUNBUFFERED=1
EXPOSE 7860
CMD ["trinity", "serve"]
