package junit.framework;

public class AssertionFailedError extends AssertionError {
    private static final long serialVersionUID = 1L;
}
