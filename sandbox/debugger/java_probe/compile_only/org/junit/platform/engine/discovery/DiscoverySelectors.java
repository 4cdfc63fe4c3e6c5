package org.junit.platform.engine.discovery;

import java.lang.reflect.Method;

public final class DiscoverySelectors {
    public static native ClassSelector selectClass(Class<?> type);

    public static native UniqueIdSelector selectUniqueId(String uniqueId);

    public static native MethodSelector selectMethod(Class<?> type, Method method);
}
