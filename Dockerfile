# longshore as a container: docker build -t longshore .
FROM python:3.12-slim AS build
WORKDIR /src
# Only what scripts/lock has seen: pip refuses every other version and every changed file.
COPY constraints-image.txt ./
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes \
    -r constraints-image.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /venv/bin/pip install --no-cache-dir --no-index --no-deps --no-build-isolation .

FROM python:3.12-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 LONGSHORE_METRICS_HOST=0.0.0.0
RUN useradd --system --create-home longshore && install -d -o longshore /run/longshore
USER longshore
WORKDIR /home/longshore
# A worker may be process 1: it reaps what its jobs leave behind.
ENTRYPOINT ["longshore"]
CMD ["worker"]
